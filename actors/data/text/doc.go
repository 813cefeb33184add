// Package text reads the texts of two tasks as their authors publish them:
// Sentiment140's tweets and Shakespeare's Complete Works.
//
// It makes sets of them and knows neither files' layouts nor other readers.
package text
