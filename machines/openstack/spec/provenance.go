package spec

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// provenance records which values of a provider spec came from a Secret or ConfigMap. Messages show the reference instead of such
// a value. The zero value has no such values.
type provenance struct {
	// references has, by field name, the reference that the value of the field came from.
	references map[string]*reference
	// shown maps each value that came from a Secret or ConfigMap to the text that messages show instead.
	shown map[string]string
}

func newProvenance() provenance {
	return provenance{references: map[string]*reference{}, shown: map[string]string{}}
}

// add records a value. It ignores a value without a reference, which may be shown.
func (p provenance) add(field string, f found) {
	if f.ref == nil {
		return
	}
	p.references[field] = f.ref
	p.shown[f.text] = f.shown()
	p.shown[strings.Trim(strconv.Quote(f.text), `"`)] = f.shown()
}

// conceal returns err without the values that came from a Secret or ConfigMap. When the cloud has no resource with the name in one
// of the fields, conceal replaces the whole text of err, because that text may suggest names similar to the value.
func (p provenance) conceal(err error, fields ...string) error {
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
	return reworded(err, message)
}
