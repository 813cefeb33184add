package data

import "errors"

func openLEAF(path string, opt Options) (*grouped, error) { return nil, errors.New("not yet") }
