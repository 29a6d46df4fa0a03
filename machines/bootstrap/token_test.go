package bootstrap

import (
	"testing"
)

func TestTheSecretHalfOfABootstrapTokenIsMadeFromTheBytesOfTheConfiguredRandomSource(t *testing.T) {
	secret, err := draw(constant(1), 16)
	if err != nil || secret != "bbbbbbbbbbbbbbbb" {
		t.Errorf("secret %s, error %v", secret, err)
	}
}
