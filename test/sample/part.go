//go:build !cluster

package sample

const whole = false
