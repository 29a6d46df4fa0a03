package machine

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

func TestAFailureWhoseStatusWriteWasLostIsShownByTheNextPass(t *testing.T) {
	b := newBackoff()
	m := &v1alpha1.Machine{}
	m.UID = "u"
	if got := b.unwritten(m); got != nil {
		t.Errorf("before any failure: got %v", got)
	}
	failure := fault.New(fault.Invalid, fault.CodeFlavorNotFound, "no such flavor")
	b.failed(m.UID, failure, time.Unix(0, 0))
	if got := b.unwritten(m); got != failure {
		t.Errorf("while the status shows nothing: got %v", got)
	}
	m.Status.ErrorReason = ptr.To(string(failure.Code))
	if got := b.unwritten(m); got != nil {
		t.Errorf("once it is shown: got %v", got)
	}
}
