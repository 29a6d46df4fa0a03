package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestInvalidArgumentsOfTheTestClusterCommandAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"the error names an argument that is not a flag": {[]string{"etcd"}, `unexpected argument "etcd"`},
		"the error names an unknown flag":                {[]string{"-fast"}, "flag provided but not defined: -fast"},
		"the error names an unknown component":           {[]string{"-with", "kwok,kubelet"}, `unknown component "kubelet"`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), test.args, &out)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q in it", err, test.want)
			}
			if out.Len() != 0 {
				t.Errorf("it printed %q before it failed", out.String())
			}
		})
	}
}
