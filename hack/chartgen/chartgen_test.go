package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheGeneratedFilesOfTheChartsAreUpToDate(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../deploy")); err != nil {
		t.Fatal(err)
	}
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	for _, s := range sources() {
		t.Run(s.to+" equals the output of make generate", func(t *testing.T) {
			got, want := contents(t, filepath.Join("../../deploy", s.to)), contents(t, filepath.Join(dir, s.to))
			if len(want) == 0 {
				t.Fatal("nothing is written there")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("run make generate (-generated +committed):\n%s", diff)
			}
		})
	}
}

// contents returns the files of a folder by their names.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(filepath.Join(dir, path))
		found[path] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestTheManifestWithDroversRolesBecomesATemplateOfTheHelmChart(t *testing.T) {
	for _, tt := range []struct{ name, manifest, want string }{
		{
			"drover's namespace becomes the namespace of the Helm release",
			"# A comment.\nkind: Role\nmetadata:\n  name: drover\n  namespace: drover\n",
			"# A comment.\nkind: Role\nmetadata:\n  name: drover\n  namespace: {{ $.Release.Namespace }}\n",
		},
		{
			"the template omits the manifest's Namespace object, because Helm creates the namespace",
			"kind: Namespace\nmetadata:\n  name: drover\n---\nkind: ServiceAccount\nmetadata:\n  name: drover\n  namespace: drover\n",
			"kind: ServiceAccount\nmetadata:\n  name: drover\n  namespace: {{ $.Release.Namespace }}\n",
		},
		{
			"a Role in a namespace other than drover's stays in its namespace",
			"kind: Role\nmetadata:\n  name: drover:join\n  namespace: kube-system\n",
			"kind: Role\nmetadata:\n  name: drover:join\n  namespace: kube-system\n",
		},
		{
			"the role for drover's certificates is rendered only when drover makes the certificates",
			"kind: Role\nmetadata:\n  name: drover:server-certificate\n  namespace: drover\n",
			"{{- if include \"drover.selfSigned\" . }}\n---\nkind: Role\nmetadata:\n  name: drover:server-certificate\n  namespace: {{ $.Release.Namespace }}\n{{- end }}\n",
		},
		{
			"the RoleBinding drover:references is repeated for each namespace with Machines",
			"kind: RoleBinding\nmetadata:\n  name: drover:references\n  namespace: kube-system\nsubjects:\n  - namespace: drover\n",
			"{{- range .Values.machineNamespaces }}\n---\nkind: RoleBinding\nmetadata:\n  name: drover:references\n  namespace: {{ . }}\nsubjects:\n  - namespace: {{ $.Release.Namespace }}\n{{- end }}\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := roles(tt.manifest)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("template (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAManifestThatContainsAHelmTemplateActionIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "crds"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "crds", "x.yaml"), []byte("description: \"{{ x }}\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(dir); err == nil || !strings.Contains(err.Error(), "x.yaml") {
		t.Errorf("got error %v, want one that names the file", err)
	}
}
