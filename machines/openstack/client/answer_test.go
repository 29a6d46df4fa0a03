package client

import (
	"net/http"
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
		"Nova's 404 for a server":                    {Compute, nova, fault.NotFound},
		"Cinder's 404 for a volume":                  {Volume, nova, fault.NotFound},
		"Neutron's 404 for a port":                   {Network, neutron, fault.NotFound},
		"Neutron's 404 in its older format":          {Network, `{"NeutronError":"Port x could not be found."}`, fault.NotFound},
		"Keystone's 404 for a token":                 {Identity, keystone, fault.Auth},
		"Glance's 404 for an image, in HTML":         {Image, glance, fault.NotFound},
		"Glance's 404 for an image, in JSON":         {Image, asJSON, fault.NotFound},
		"Nova's answer instead of Neutron's":         {Network, nova, fault.Transient},
		"Keystone's answer instead of Nova's":        {Compute, keystone, fault.Transient},
		"Nova's answer for another fault":            {Compute, `{"forbidden":{"code":404,"message":"no"}}`, fault.Transient},
		"the framework's answer for an unknown path": {Compute, asJSON, fault.Transient},
		"nginx":                                          {Compute, nginx, fault.Transient},
		"nginx's answer instead of Glance's":             {Image, nginx, fault.Transient},
		"Apache's answer instead of Glance's":            {Image, apache, fault.Transient},
		"the answer of Go's file server":                 {Network, bare, fault.Transient},
		"the answer of an ingress":                       {Compute, ingress, fault.Transient},
		"the answer of an ingress instead of Keystone's": {Identity, ingress, fault.Transient},
		"the answer of a Kubernetes API server":          {Compute, kube, fault.Transient},
		"the answer of an unknown sender":                {Volume, "", fault.Transient},
	} {
		t.Run(name+" (F-19)", func(t *testing.T) {
			err := classify(Call{Service: tt.service, Doing: "looking"}, gophercloud.ErrUnexpectedResponseCode{Actual: http.StatusNotFound, Body: []byte(tt.body)}, nil)
			if !fault.Is(err, tt.class) || tt.class == fault.Transient && fault.Of(err).Code != fault.CodeForeignAnswer {
				t.Errorf("got %s %s: %v", fault.Of(err).Class, fault.Of(err).Code, err)
			}
		})
	}
}
