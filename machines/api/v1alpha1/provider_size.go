package v1alpha1

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

// MaxProviderSpec is the largest size of a provider's document, in bytes, with which drover makes a server. The policy drover-bytes
// refuses larger ones.
const MaxProviderSpec = 64 << 10

// ErrProviderSpecTooLarge is the error about a provider's document of more than MaxProviderSpec bytes.
var ErrProviderSpecTooLarge = errors.New("more than 65536 bytes: move long values into a Secret or ConfigMap, and refer to them")

// shortened is the beginning of what ShortenDocument leaves of a document.
const shortened = `{"tooLarge":`

// ShortenDocument replaces a provider's document of more than MaxProviderSpec bytes by its size and its hash, so that a cache does
// not hold it. Equal documents stay equal. CheckDocument refuses the result as it refuses the document itself.
func ShortenDocument(document *runtime.RawExtension) {
	if document != nil && len(document.Raw) > MaxProviderSpec {
		document.Raw = fmt.Appendf(nil, shortened+`"%d bytes, SHA-256 %x"}`, len(document.Raw), sha256.Sum256(document.Raw))
	}
}

// CheckDocument returns an error for a provider's document that is too large, or that ShortenDocument has replaced.
func CheckDocument(document *runtime.RawExtension) error {
	if document != nil && (len(document.Raw) > MaxProviderSpec || len(document.Raw) >= len(shortened) && string(document.Raw[:len(shortened)]) == shortened) {
		return ErrProviderSpecTooLarge
	}
	return nil
}

// Document returns the provider's document of a Machine's spec, in either spelling; nil when there is none.
func (s *MachineSpec) Document() *runtime.RawExtension {
	if s.ProviderSpec.Value == nil && s.ProviderConfig != nil {
		return s.ProviderConfig.Value
	}
	return s.ProviderSpec.Value
}
