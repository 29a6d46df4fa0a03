package spec

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// provenance records which values of a provider spec came from a Secret or ConfigMap. Messages show the reference instead of such
// a value.
type provenance struct {
	// references has, by field name, the reference that the value of the field came from.
	references map[string]*reference
	// shown maps each value that came from a Secret or ConfigMap to the text that messages show instead.
	shown map[string]string
}

func newProvenance() *provenance {
	return &provenance{references: map[string]*reference{}, shown: map[string]string{}}
}

// add records a value that came from a reference. It ignores a value without a reference, which may be shown.
func (p *provenance) add(field, text string, ref *reference) {
	if p == nil || ref == nil || text == "" {
		return
	}
	p.references[field] = ref
	p.shown[text] = ref.value()
	p.shown[strings.Trim(strconv.Quote(text), `"`)] = ref.value()
}

// conceal returns err without the values that came from a Secret or ConfigMap. When the cloud has no resource with the name in one
// of the fields, conceal replaces the whole text of err, because that text may suggest names similar to the value.
func (p *provenance) conceal(err error, fields ...string) error {
	e := fault.Of(err)
	if e == nil || len(p.shown) == 0 {
		return err
	}
	message := client.Conceal(e.Message, p.shown)
	for _, field := range fields {
		if ref := p.references[field]; ref != nil && fault.Unmatched(e.Code) {
			message = fmt.Sprintf("%s matches none, or several, of the resources that this project can see (%s)", ref.value(), e.Code)
		}
	}
	if message == e.Message {
		return err
	}
	own := fault.New(e.Class, e.Code, "%s", message)
	own.RetryAfter, own.Err = e.RetryAfter, err
	return own
}

// quote returns a value for a message: in quotes, or its reference.
func quote(text string, ref *reference) string {
	if ref != nil {
		return ref.value()
	}
	return fmt.Sprintf("%q", text)
}
