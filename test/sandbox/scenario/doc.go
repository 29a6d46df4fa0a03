// Package scenario is what the sandbox shows: the demo's stages, each with something that must come true and a time until
// when; and the trials, in which there is trouble while an autoscaler works.
package scenario
