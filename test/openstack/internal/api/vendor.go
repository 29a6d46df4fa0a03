package api

import (
	"fmt"
	"net/http"

	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// ErrorForm is a form in which the compute and volume services of a cloud write errors.
type ErrorForm int

const (
	// OpenStackErrors is the form of Nova and Cinder: {"forbidden": {"code": 403, "message": "…"}}.
	OpenStackErrors ErrorForm = iota
	// ErrorWithCode is a form of vendors: {"error": {"message": "…", "code": "Ecs.0403"}}. No OpenStack service writes it.
	ErrorWithCode
	// ErrorMsgAndCode is a form of vendors: {"error_msg": "…", "error_code": "Ecs.0403"}. No OpenStack service writes it.
	ErrorMsgAndCode
)

// In returns an error of Nova or Cinder in another form. It returns any other reply as it is.
func (r Reply) In(f ErrorForm, service string) Reply {
	body, isObject := r.Body.(wire.Object)
	if f == OpenStackErrors || r.Status < http.StatusBadRequest || !isObject || service != ServiceCompute && service != ServiceVolume {
		return r
	}
	inner, isObject := body[0].Value.(wire.Object)
	if !isObject {
		return r
	}
	message, _ := inner.Get("message")
	code := fmt.Sprintf("Ecs.%04d", r.Status)
	if f == ErrorWithCode {
		r.Body = wire.Object{{"error", wire.Object{{"message", message}, {"code", code}}}}
	} else {
		r.Body = wire.Object{{"error_msg", message}, {"error_code", code}}
	}
	return r
}
