package doccommands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/test/kube"
)

// killedWait is how long the Shell waits for the rest of the output after it has killed the commands.
const killedWait = 5 * time.Second

// Shell runs blocks as a user does in the folder of a checkout, with kubectl set up for one cluster. Files that the commands
// write stay in a folder of the Shell, where later blocks find them.
type Shell struct {
	// Dir is where the commands run. It has links to everything in the folder of the repository.
	Dir string
	// Words are replacements for words of the commands, such as NAMESPACE. Only whole words are replaced.
	Words map[string]string
	// Env is added to the environment, as NAME=value. HOME, PATH, TMPDIR and KUBECONFIG are always set.
	Env []string

	root, kubeconfig, path string
}

// NewShell returns a Shell for the cluster of a kubeconfig. Commands are looked up in the folders of programs, then in the folder
// of kubectl, then in the PATH of the test.
func NewShell(t testing.TB, kubeconfig string, programs ...string) *Shell {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	kubectl, err := kube.Binaries(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	s := &Shell{Dir: t.TempDir(), Words: map[string]string{}, root: root, kubeconfig: kubeconfig}
	s.path = strings.Join(append(slices.Clone(programs), kubectl, os.Getenv("PATH")), string(filepath.ListSeparator))
	if err := link(root, s.Dir); err != nil {
		t.Fatal(err)
	}
	return s
}

// Root returns the folder of the repository that contains the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "deploy", "crds")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("finding the documentation: run this inside a checkout of drover")
		}
	}
}

// link creates, in the folder to, a link to each entry of the folder from, except hidden entries.
func link(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("reading the folder of the repository: %w", err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if err := os.Symlink(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())); err != nil {
			return fmt.Errorf("linking to the repository: %w", err)
		}
	}
	return nil
}

// Run runs a block, such as docs/operations.md#backup, and returns its output. A command that fails, except in the
// middle of a pipe, ends the block and the test.
func (s *Shell) Run(t testing.TB, id string) (output string) {
	t.Helper()
	output, err := s.Try(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// Try runs a block and returns its output. The error contains the output of the command that failed.
func (s *Shell) Try(ctx context.Context, id string) (output string, err error) {
	block, err := s.find(id)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "sh", "-ec", replaceWords(block.Commands, s.Words))
	cmd.Dir, cmd.WaitDelay = s.Dir, killedWait
	cmd.Env = append([]string{"HOME=" + s.Dir, "TMPDIR=" + s.Dir, "PATH=" + s.path, "KUBECONFIG=" + s.kubeconfig}, s.Env...)
	// When the shell is killed, its child processes are killed with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	raw, err := cmd.CombinedOutput()
	if err != nil {
		return string(raw), fmt.Errorf("running the commands of %s (line %d): %w\n%s", id, block.Line, err, raw)
	}
	return string(raw), nil
}

// find returns the block with the given ID.
func (s *Shell) find(id string) (Block, error) {
	page, _, _ := strings.Cut(id, "#")
	blocks, err := Read(s.root, page)
	if err != nil {
		return Block{}, err
	}
	at := slices.IndexFunc(blocks, func(b Block) bool { return b.ID() == id })
	if at < 0 {
		return Block{}, fmt.Errorf("%s has no block of commands with the comment <!-- test: %s -->", page, strings.TrimPrefix(id, page+"#"))
	}
	return blocks[at], nil
}

// replaceWords replaces whole words: NAME is not replaced in NAMESPACE or SERVER_NAME.
func replaceWords(text string, words map[string]string) string {
	for word, by := range words {
		whole := regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`)
		text = whole.ReplaceAllLiteralString(text, by)
	}
	return text
}
