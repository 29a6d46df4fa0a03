package client

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/drover-project/drover/machines/fault"
)

func TestProofThatAResourceDoesNotExist(t *testing.T) {
	const (
		nova     = `{"itemNotFound":{"code":404,"message":"Instance x could not be found."}}`
		neutron  = `{"NeutronError":{"type":"PortNotFound","message":"Port x could not be found.","detail":""}}`
		keystone = `{"error":{"code":404,"title":"Not Found","message":"Could not find token."}}`
		glance   = "<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n <body>\n  <h1>404 Not Found</h1>\n  No image found with ID x<br /><br />\n\n </body>\n</html>"
		asJSON   = `{"code":"404 Not Found","title":"Not Found","message":"No image found with ID x<br /><br />"}`
		nginx    = "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>"
		apache   = "<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n<title>404 Not Found</title>\n</head><body>\n<h1>Not Found</h1>\n<p>The requested URL was not found</p>\n</body></html>"
		bare     = "404 page not found"
		ingress  = "default backend - 404"
		kube     = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","code":404}`
	)
	for name, tt := range map[string]struct {
		service Service
		body    string
		class   fault.Class
	}{
		"Nova's 404 proves that a server does not exist":                                   {Compute, nova, fault.NotFound},
		"Cinder's 404 proves that a volume does not exist":                                 {Volume, strings.Replace(nova, "Instance", "Volume", 1), fault.NotFound},
		"Neutron's 404 proves that a port does not exist":                                  {Network, neutron, fault.NotFound},
		"Neutron's 404 in its older format proves that a port does not exist":              {Network, `{"NeutronError":"Port x could not be found."}`, fault.NotFound},
		"Keystone's 404 for a token counts as a failed sign-in, not as a missing resource": {Identity, keystone, fault.Auth},
		"Glance's 404 in HTML proves that an image does not exist":                         {Image, glance, fault.NotFound},
		"Glance's 404 in JSON proves that an image does not exist":                         {Image, asJSON, fault.NotFound},
		"a 404 in Nova's format proves nothing when it answers a call to Neutron":          {Network, nova, fault.Transient},
		"a 404 in Keystone's format proves nothing when it answers a call to Nova":         {Compute, keystone, fault.Transient},
		"Nova's 404 with another fault than itemNotFound proves nothing":                   {Compute, `{"forbidden":{"code":404,"message":"no"}}`, fault.Transient},
		"a web framework's 404 for an unknown path of Nova proves nothing":                 {Compute, asJSON, fault.Transient},
		"nginx's 404 page proves nothing when it answers a call to Nova":                   {Compute, nginx, fault.Transient},
		"nginx's 404 page proves nothing when it answers a call to Glance":                 {Image, nginx, fault.Transient},
		"Apache's 404 page proves nothing when it answers a call to Glance":                {Image, apache, fault.Transient},
		"a Go web server's 404 proves nothing when it answers a call to Neutron":           {Network, bare, fault.Transient},
		"an ingress controller's 404 proves nothing when it answers a call to Nova":        {Compute, ingress, fault.Transient},
		"an ingress controller's 404 proves nothing when it answers a call to Keystone":    {Identity, ingress, fault.Transient},
		"a Kubernetes API server's 404 proves nothing when it answers a call to Nova":      {Compute, kube, fault.Transient},
		"a 404 without a body proves nothing":                                              {Volume, "", fault.Transient},
	} {
		t.Run(name+" (F-19)", func(t *testing.T) {
			path := map[Service]string{
				Compute: "/v2.1/servers/x", Volume: "/v3/0123456789abcdef0123456789abcdef/volumes/x", Network: "/v2.0/ports/x", Image: "/v2/images/x",
			}[tt.service]
			err := classify(Call{Service: tt.service, Doing: "looking"}, gophercloud.ErrUnexpectedResponseCode{
				Method: http.MethodGet, URL: "http://cloud" + path, Actual: http.StatusNotFound, Body: []byte(tt.body),
			}, nil)
			if !fault.Is(err, tt.class) || tt.class == fault.Transient && fault.Of(err).Code != fault.CodeForeignAnswer {
				t.Errorf("got %s %s: %v", fault.Of(err).Class, fault.Of(err).Code, err)
			}
		})
	}
}
