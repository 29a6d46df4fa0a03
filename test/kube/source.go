package kube

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	rootModule    = "module github.com/drover-project/drover"
	controlPlane  = "test/kube/controlplane"
	versionModule = "k8s.io/kubernetes"
)

// sourceDir returns the folder of the module from which the control plane is built. It is next to
// this file if the compiler recorded the path. Otherwise (a binary built with -trimpath) it is in
// the checkout that contains the working directory.
func sourceDir() (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		dir := filepath.Join(filepath.Dir(file), filepath.Base(controlPlane))
		if isModule(dir) {
			return dir, nil
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if data, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && firstLine(data) == rootModule {
			return filepath.Join(dir, filepath.FromSlash(controlPlane)), nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("finding " + controlPlane + " to build the control plane: run this inside a checkout of drover, or set " +
				assetsVariable + " to a folder with the binaries")
		}
	}
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func firstLine(data []byte) string {
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(line)
}
