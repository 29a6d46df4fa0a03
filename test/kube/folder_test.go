package kube

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCreatingATemporaryFolderDeletesOnlyFoldersThatKilledProcessesLeftWithTheSamePrefix(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	killed, release, err := OwnFolder("", "swept-")
	if err != nil {
		t.Fatal(err)
	}
	release() // when a process is killed, the kernel releases the folder's lock in the same way
	other, release, err := OwnFolder("", "other-")
	if err != nil {
		t.Fatal(err)
	}
	release()
	living, release, err := OwnFolder("", "swept-")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := os.Stat(killed); !os.IsNotExist(err) {
		t.Errorf("%s is still there", killed)
	}
	sweep(os.TempDir(), "swept-")
	for name, dir := range map[string]string{"the folder of a running process is kept": living, "a folder whose name has a different prefix is kept": other} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAFolderThatIsNotEmptyIsRefusedForATestClusterAndKeepsItsFiles(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := OwnFolder(dir, ""); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}
