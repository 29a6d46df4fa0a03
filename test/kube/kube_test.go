package kube_test

import (
	"testing"

	"github.com/drover-project/drover/test/kube"
)

func TestAControlPlaneStartsAndServes(t *testing.T) {
	c := kube.ForTest(t, kube.Options{Components: kube.All()})
	out, err := c.Kubectl(t.Context(), "get", "--raw", "/version")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(string(out))
}
