package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheFolderOfAKilledSandboxIsSwept(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	killed, release, err := makeFolder("")
	if err != nil {
		t.Fatal(err)
	}
	release() // as the kernel does for a process that was killed
	living, release, err := makeFolder("")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := os.Stat(killed); !os.IsNotExist(err) {
		t.Errorf("%s is still there", killed)
	}
	sweep(os.TempDir())
	if _, err := os.Stat(living); err != nil {
		t.Errorf("the folder of a living one: %v", err)
	}
}

func TestAFolderWithSomebodysFilesIsRefusedAndKept(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := makeFolder(dir); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}
