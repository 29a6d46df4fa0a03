package images

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Hello is the container image of a server that answers HTTP on port 8080 with its pod's name.
const Hello = "localhost/hello:1"

// pause holds the names of the image for a pod's sandbox, as different releases of containerd and Kubernetes use them.
var pause = []string{
	"registry.k8s.io/pause:3.6", "registry.k8s.io/pause:3.8", "registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.10",
	"registry.k8s.io/pause:3.10.1", "registry.k8s.io/pause:3.10.2", "registry.k8s.io/pause:3.11",
}

// containers returns the path of an archive with the container images, in the form of docker save.
func (b *builder) containers() (string, error) {
	code, err := os.ReadFile(filepath.Join(source(), "..", "tool", "main.go"))
	if err != nil {
		return "", fmt.Errorf("reading the program of the container images: %w; do not build this test with -trimpath", err)
	}
	dir, err := b.cached("containers", append([]string{string(code)}, pause...), func(dir string) error {
		program := filepath.Join(dir, "tool")
		env := []string{"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false"}
		if err := b.run(filepath.Join(source(), "..", "tool"), env, "go", "build", "-o", program, "-ldflags", "-s -w", "."); err != nil {
			return err
		}
		data, err := os.ReadFile(program)
		if err != nil {
			return err
		}
		archive, err := saved(data)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "images.tar"), archive, 0o644)
	})
	return filepath.Join(dir, "images.tar"), err
}

// saved returns an archive of two images with the same layer, which differ in their entrypoint.
func saved(program []byte) ([]byte, error) {
	layer, err := archive(map[string][]byte{"pause": program, "hello": program}, "pause", "hello")
	if err != nil {
		return nil, err
	}
	type entry struct {
		Config           string
		RepoTags, Layers []string
	}
	files, order, manifest := map[string][]byte{"layer.tar": layer}, []string{"layer.tar"}, []entry{}
	for entrypoint, tags := range map[string][]string{"/pause": pause, "/hello": {Hello}} {
		config, err := json.Marshal(map[string]any{
			"architecture": "amd64", "os": "linux", "config": map[string]any{"Entrypoint": []string{entrypoint}},
			"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
		})
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%x.json", sha256.Sum256(config))
		files[name], order = config, append(order, name)
		manifest = append(manifest, entry{Config: name, RepoTags: tags, Layers: []string{"layer.tar"}})
	}
	if files["manifest.json"], err = json.Marshal(manifest); err != nil {
		return nil, err
	}
	return archive(files, append(order, "manifest.json")...)
}

// archive returns a tar archive of the files, in that order.
func archive(files map[string][]byte, order ...string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range order {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))})
		_, err2 := w.Write(files[name])
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("packing %s: %w", name, err)
		}
	}
	return out.Bytes(), w.Close()
}
