// Command release checks that a version can be released from this commit, and prints the commands to run next. It changes
// nothing.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: release VERSION, as in 0.1.0")
		os.Exit(2)
	}
	commands, problems := release(".", os.Args[1], time.Now())
	if len(problems) > 0 {
		for _, p := range problems {
			fmt.Fprintln(os.Stderr, "release:", p)
		}
		os.Exit(1)
	}
	fmt.Println(commands)
}

// release returns the commands that release a version from the work tree in dir now, or the problems that prevent the release.
func release(dir, version string, now time.Time) (commands string, problems []string) {
	state, err := read(dir)
	if err != nil {
		return "", []string{err.Error()}
	}
	problems, err = unsafe(table, defaults)
	if err != nil {
		return "", []string{err.Error()}
	}
	if old := stale(table, now); old != "" {
		problems = append(problems, old)
	}
	if problems = append(state.problems(version), problems...); len(problems) > 0 {
		return "", problems
	}
	return instructions(version), nil
}

// git runs git in dir and returns its output.
func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
