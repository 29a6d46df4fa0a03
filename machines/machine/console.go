package machine

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	// consoleBytes is how much of a console is kept.
	consoleBytes = 4096
	// consoleInEvent is how much of it fits into an Event.
	consoleInEvent = 800
)

// keepConsole puts the last words of the server's console into a condition, once for each server (CAPI-25). That it
// cannot be read is said there too. It tells whether this was the first time.
func (r *Reconciler) keepConsole(ctx context.Context, p *pass) bool {
	server := p.facts.cloud.Server
	intro := fmt.Sprintf("server %s: ", server.ID)
	if strings.HasPrefix(messageOf(p.base, v1alpha1.ConditionConsole), intro) {
		return false
	}
	text, err := p.instance.ConsoleOutput(ctx, consoleBytes)
	if err == nil {
		text, err = r.Bootstrap.Redact(ctx, p.m, p.instance.Config(), text)
		text = printable(text)
	}
	if err != nil {
		text = "the console could not be read: " + err.Error()
	}
	c := conditions{machine: p.m, now: metav1.NewTime(r.Clock.Now())}
	c.set(v1alpha1.ConditionConsole, verdict{corev1.ConditionTrue, reasonJoinTimeout, intro + text})
	r.warn(p.m, reasonJoinTimeout, intro+"its console ends with: "+tail(text, consoleInEvent))
	ctrl.LoggerFrom(ctx).Info("Server has not become a node", "server", server.ID, "console", tail(text, consoleInEvent))
	return true
}

// printable leaves out what a terminal would obey, and the first line, which is cut somewhere.
func printable(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\r\n", "\n")
	if _, rest, ok := strings.Cut(text, "\n"); ok && len(text) >= consoleBytes {
		text = rest
	}
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if c == '\n' || unicode.IsPrint(c) {
			return c
		}
		return -1
	}, text))
}

// tail is the end of a text, at most so many bytes, beginning at a line.
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
