// Command deployment measures how well a deployment of real devices is predicted: it
// goes the way of docs/deploy.md with processes of this machine in the place of boards.
//
//	go run ./bench/deployment
//	go run ./bench/deployment --runs 3 --rounds 20
//
// Three devices run on a quarter of a processor each, behind links of 20/5, 10/2 and
// 5/1 Mbit/s; a fourth is the program for arm64 in an emulator (qemu-aarch64-static).
// Each is calibrated through its own link. Then they are the only clients of runs with
// K_r-rounds, and the command prints what the runs took beside what was predicted.
//
// The processors are limited by Linux's control groups, which takes root; without them
// the devices run unlimited, and the command says so. The links are package throttle's.
// A machine that does other work meanwhile is not what was calibrated: measure on a
// quiet one.
package main
