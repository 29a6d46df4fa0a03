package machine

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	// consoleBytes is how much of a console is kept.
	consoleBytes = 4096
	// consoleInEvent is how much of it fits into an Event.
	consoleInEvent = 800
	redacted       = "[redacted]"
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
		var secrets []string
		if secrets, err = r.secretsOf(ctx, p.m); err == nil {
			text = printable(redact(text, secrets))
		}
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

// secretsOf are the parts of the Machine's join token, as its user data has them.
func (r *Reconciler) secretsOf(ctx context.Context, m *v1alpha1.Machine) ([]string, error) {
	var list corev1.SecretList
	err := r.Target.GetAPIReader().List(ctx, &list, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{v1alpha1.LabelTokenMachine: string(m.UID)})
	if err != nil {
		return nil, fmt.Errorf("listing bootstrap tokens: %w", err)
	}
	var secrets []string
	for i := range list.Items {
		for _, key := range []string{"token-secret", "token-id"} {
			if value := string(list.Items[i].Data[key]); value != "" {
				secrets = append(secrets, value)
			}
		}
	}
	return secrets, nil
}

// secretive are texts that look like credentials, whatever else the user data brought: tokens, keys, and what follows a
// word for a secret.
var secretive = []*regexp.Regexp{
	regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`),
	regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.?[A-Za-z0-9_-]*`),
	regexp.MustCompile(`(?i)(bearer|basic)\s+[A-Za-z0-9+/=._-]{8,}`),
	regexp.MustCompile(`(?i)[a-z0-9_-]*(password|passwd|secret|token|credential|private[_-]?key)[a-z0-9_-]*["']?\s*[:=]\s*\S+`),
}

// redact leaves out known secrets and what looks like one.
func redact(text string, secrets []string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, redacted)
	}
	for _, pattern := range secretive {
		text = pattern.ReplaceAllString(text, redacted)
	}
	return text
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
