package steps

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/scope"
	"github.com/drover-project/drover/machines/machine/status"
)

const (
	// consoleRead is how many bytes of a console are read. It is larger than consoleBytes, because progress bars and control sequences
	// are removed from the text.
	consoleRead = 64 << 10
	// consoleBytes is how many bytes of a console the condition shows.
	consoleBytes = 4096
	// consoleInEvent is how many bytes of a console an Event shows.
	consoleInEvent = 800
)

// keepConsole copies the end of the server's console into a condition after the join deadline has passed, once for each server
// (CAPI-25). It reports whether this call has copied it.
func (j *Join) keepConsole(ctx context.Context, s *scope.Scope) bool {
	server := s.Observed.Cloud.Server
	if consoleIs(s, lifecycle.ReasonJoinTimeout) {
		return false
	}
	text := j.readConsole(ctx, s)
	setConsole(s, status.Verdict{Status: corev1.ConditionTrue, Reason: lifecycle.ReasonJoinTimeout, Message: consoleIntro(server) + text})
	s.Warn(lifecycle.ReasonJoinTimeout, consoleIntro(server)+"its console ends with: "+tail(text, consoleInEvent))
	ctrl.LoggerFrom(ctx).Info("Server has not become a node", "server", server.ID, "console", tail(text, consoleInEvent))
	return true
}

// consoleIntro returns the start of the message of condition Console. It names the server.
func consoleIntro(s *cloud.Server) string { return fmt.Sprintf("server %s: ", s.ID) }

// consoleIs reports whether condition Console is about the present server and has the given reason.
func consoleIs(s *scope.Scope, reason string) bool {
	return s.Base.Condition(v1alpha1.ConditionConsole).Reason == reason &&
		strings.HasPrefix(s.Base.Condition(v1alpha1.ConditionConsole).Message, consoleIntro(s.Observed.Cloud.Server))
}

// clearConsole sets condition Console to False when the server has become a Node after all.
func clearConsole(s *scope.Scope) {
	if s.Machine.Condition(v1alpha1.ConditionConsole).Status == corev1.ConditionTrue {
		s.SetCondition(v1alpha1.ConditionConsole, status.Verdict{Status: corev1.ConditionFalse, Reason: lifecycle.ReasonJoined})
	}
}

// consoleLooks are the times at which drover reads the console of an ACTIVE server without a Node, as fractions of the join timeout.
var consoleLooks = []float64{0.5, 0.75}

// nextLook returns the first time later than after at which the console of a server is to be read. began is when the join
// timeout began. It returns false when the console is not to be read again before the join deadline.
func nextLook(began, after time.Time, timeout time.Duration) (time.Time, bool) {
	for _, part := range consoleLooks {
		if at := began.Add(time.Duration(part * float64(timeout))); at.After(after) {
			return at, true
		}
	}
	return time.Time{}, false
}

// watchConsole reads the console of an ACTIVE server that has not become a Node, after half and after three quarters of its join
// timeout. Condition Console shows the text if it contains a failure. The condition's heartbeat is the time of the last read, so
// that a restart does not repeat the read.
func (j *Join) watchConsole(ctx context.Context, s *scope.Scope) {
	server, now := s.Observed.Cloud.Server, s.Now()
	if s.Policy.JoinDeadline.IsZero() || server.State != cloud.ServerActive {
		return
	}
	began := s.Policy.JoinDeadline.Add(-s.Policy.Timeouts.Join)
	last := began
	if consoleIs(s, lifecycle.ReasonWaitingForNode) {
		if c := s.Base.Condition(v1alpha1.ConditionConsole); c.LastHeartbeatTime != nil {
			last = c.LastHeartbeatTime.Time
		}
	}
	at, due := nextLook(began, last, s.Policy.Timeouts.Join)
	if due && !at.After(now) {
		text := j.readConsole(ctx, s)
		v := status.Verdict{Status: corev1.ConditionFalse, Reason: lifecycle.ReasonWaitingForNode, Message: consoleIntro(server) + "its console shows no failure yet"}
		if failureIn(text) != "" {
			v.Status, v.Message = corev1.ConditionTrue, consoleIntro(server)+text
		}
		setConsole(s, v)
		at, due = nextLook(began, now, s.Policy.Timeouts.Join)
	}
	if due {
		s.RequeueWithin(at.Sub(now))
	}
}

// readConsole returns the end of the server's console without secrets, or a text that explains why it cannot be read.
func (j *Join) readConsole(ctx context.Context, s *scope.Scope) string {
	text, err := s.Instance.ConsoleOutput(ctx, consoleRead)
	if err == nil {
		text, err = j.Bootstrap.Redact(ctx, s.Machine, s.Instance.Config(), printable(text))
	}
	if err != nil {
		return "reading the console failed: " + err.Error()
	}
	return tail(text, consoleBytes)
}

// setConsole sets condition Console and records in it when the console was read.
func setConsole(s *scope.Scope, v status.Verdict) {
	s.SetCondition(v1alpha1.ConditionConsole, v)
	s.Machine.Condition(v1alpha1.ConditionConsole).LastHeartbeatTime = ptr.To(metav1.NewTime(s.Now()))
}

// Expressions that find the failure in a console. A line names a failure when it contains the name of a program that creates the
// Node (nodeMakers) and a word for an error (failureWords); error words alone do not suffice, because kernels print many harmless
// errors. Lines that match aside do not count, because they only repeat that something failed, without the cause.
var (
	nodeMakers   = regexp.MustCompile(`(?i)drover-setup|drover-report|cloud-init|ignition|kubelet|containerd|kernel panic|emergency`)
	failureWords = regexp.MustCompile(`(?i)\b(fail(ed|ure|s|ing)?|errors?|fatal|panic|emergency|cannot|could not|unable|denied|refused|unauthorized|forbidden|timed out|no route|no space|needs)\b`)
	aside        = regexp.MustCompile(`(?i)See 'systemctl|\[FAILED\] |its last lines`)
)

// failureIn returns the last line of a console that names a failure; empty when there is none.
func failureIn(console string) string {
	last := ""
	for line := range strings.Lines(console) {
		if nodeMakers.MatchString(line) && failureWords.MatchString(line) && !aside.MatchString(line) {
			last = strings.TrimSpace(line)
		}
	}
	return last
}

// Expressions for the terminal output that is removed from a console: colours, cursor movements, and the lines in which systemd
// shows twice a second what it waits for. During a setup that takes minutes, nothing else would fit into the shown part.
var (
	escapes  = regexp.MustCompile(`\x1b(\[[0-9;?]*[ -/]*[@-~]|[@-Z\\-_])`)
	progress = regexp.MustCompile(`(?m)^\s*\[[ *]+\] (\(\d+ of \d+\) )?(A start job is running|Job .* running|A stop job is running).*`)
	blanks   = regexp.MustCompile(`\n\s*\n`)
)

// printable removes terminal output and control characters. It also removes the first line when its beginning may be missing,
// because only the end of the console was read.
func printable(text string) string {
	if _, rest, ok := strings.Cut(text, "\n"); ok && len(text) >= consoleRead {
		text = rest
	}
	text = strings.NewReplacer("\r\n", "\n", "\r", "").Replace(strings.ToValidUTF8(text, ""))
	text = blanks.ReplaceAllString(progress.ReplaceAllString(escapes.ReplaceAllString(text, ""), ""), "\n")
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if c == '\n' || unicode.IsPrint(c) {
			return c
		}
		return -1
	}, text))
}

// tail returns the end of a text, from the beginning of a line: at most the given number of bytes.
func tail(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text = strings.ToValidUTF8(text[len(text)-most:], "")
	if _, rest, ok := strings.Cut(text, "\n"); ok {
		return rest
	}
	return text
}
