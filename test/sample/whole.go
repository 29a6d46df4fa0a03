//go:build cluster

package sample

const whole = true
