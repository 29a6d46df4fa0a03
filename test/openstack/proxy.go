package openstack

import "net/http"

// ProxyPage returns a fault with which a proxy, and not OpenStack, answers a call: a page of its own with that status. The call
// is not carried out.
func ProxyPage(call string, status int) Fault {
	return Fault{
		Call: call, Status: status, Header: http.Header{"Content-Type": {"text/html"}},
		Body: "<html><head><title>proxy</title></head><body>default backend - " + http.StatusText(status) + "</body></html>",
	}
}
