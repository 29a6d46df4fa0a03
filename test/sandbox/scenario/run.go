package scenario

import (
	"context"
	"fmt"
	"time"
)

// Result is the outcome of a stage.
type Result struct {
	Stage Stage
	Took  time.Duration
	// Calls is the number of calls that the cloud answered during the stage.
	Calls int
	Note  string
	Err   error
}

// Run runs the stages in order and stops at the first that fails. It calls began at the start of each stage, and ended
// at the end.
func Run(ctx context.Context, d *Demo, began func(Stage), ended func(Result)) error {
	for _, stage := range Stages() {
		began(stage)
		r := runStage(ctx, d, stage)
		ended(r)
		if r.Err != nil {
			return fmt.Errorf("stage %q: %w", stage.Name, r.Err)
		}
	}
	return nil
}

func runStage(ctx context.Context, d *Demo, stage Stage) Result {
	ctx, cancel := context.WithTimeoutCause(ctx, stage.Limit, fmt.Errorf("not done after %s", stage.Limit))
	defer cancel()
	r := Result{Stage: stage}
	start, calls := time.Now(), d.Cloud.CallCount()
	r.Note, r.Err = stage.Run(ctx, d)
	r.Took, r.Calls = time.Since(start), d.Cloud.CallCount()-calls
	return r
}
