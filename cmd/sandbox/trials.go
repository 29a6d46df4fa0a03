package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
	"github.com/drover-project/drover/test/sandbox/screen"
)

// trialsCommand returns the command that causes faults while an autoscaler works.
func trialsCommand(o *sandbox.Options) *cobra.Command {
	only, list := "", false
	c := &cobra.Command{
		Use: "trials", Args: cobra.NoArgs,
		Short: "Make trouble while the autoscaler works: full groups, crashes, fail-overs, prices; and see that all comes right",
		RunE: func(c *cobra.Command, _ []string) error {
			wanted, err := trialsNamed(only)
			if err != nil {
				return err
			}
			if list {
				for _, t := range wanted {
					if _, err := fmt.Fprintf(c.OutOrStdout(), "%-16s %s\n", t.Setting, t.Name); err != nil {
						return err
					}
				}
				return nil
			}
			return tryAll(c.Context(), o, wanted)
		},
	}
	c.Flags().StringVar(&only, "only", "", "run those alone whose names hold this text")
	c.Flags().BoolVar(&list, "list", false, "list the trials, each with the setting of its sandbox, and run none")
	return c
}

func trialsNamed(part string) ([]scenario.Trial, error) {
	wanted := slices.DeleteFunc(scenario.Trials(), func(t scenario.Trial) bool { return !strings.Contains(t.Name, part) })
	if len(wanted) == 0 {
		return nil, fmt.Errorf("--only %q: no trial has a name with this text; --list shows the names", part)
	}
	return wanted, nil
}

// tryAll runs the trials. Trials with the same setting share a sandbox. After a trial has failed, tryAll
// continues in a new sandbox.
func tryAll(ctx context.Context, o *sandbox.Options, trials []scenario.Trial) error {
	release, err := sandbox.Lock()
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := screen.New(os.Stdout, cancel)
	failed := 0
	for len(trials) > 0 {
		rest, err := tryTogether(ctx, *o, trials, out)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			return err
		}
		if rest.failed {
			failed++
		}
		trials = rest.trials
	}
	if failed > 0 {
		return fmt.Errorf("%d trials failed", failed)
	}
	return nil
}

// rest holds the trials that have not run yet. failed is true when the last trial failed.
type rest struct {
	trials []scenario.Trial
	failed bool
}

// tryTogether runs, in one sandbox, the first trials of the list that have the same setting. It stops after a trial that fails.
func tryTogether(ctx context.Context, o sandbox.Options, trials []scenario.Trial, out *screen.Screen) (rest, error) {
	setting := trials[0].Setting
	setting.Apply(&o)
	if err := chooseParts(&o); err != nil {
		return rest{}, err
	}
	s, err := sandbox.Start(ctx, o)
	if err != nil {
		return rest{}, err
	}
	defer s.Stop()
	d, err := scenario.NewDemo(s)
	if err != nil {
		return rest{}, err
	}
	out.Say("Setting %q, scaled by %s", setting, s.AutoscalerName())
	for len(trials) > 0 && trials[0].Setting == setting {
		out.Say("▸ %s", trials[0].Name)
		r := scenario.Try(ctx, d, trials[0])
		trials = trials[1:]
		if r.Err == nil {
			out.Say("✓ %s: %.1f s%s", r.Stage.Name, r.Took.Seconds(), after(", ", r.Note))
			continue
		}
		if ctx.Err() == nil {
			out.Say("✗ %s: %.1f s%s\n  %v", r.Stage.Name, r.Took.Seconds(), after(", ", r.Note), r.Err)
			sayLogs(s, out)
		}
		return rest{trials, true}, nil
	}
	return rest{trials, false}, nil
}
