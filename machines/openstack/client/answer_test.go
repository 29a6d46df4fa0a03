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
		"Nova, for a server":              {Compute, nova, fault.NotFound},
		"Cinder, for a volume":            {Volume, nova, fault.NotFound},
		"Neutron, for a port":             {Network, neutron, fault.NotFound},
		"Neutron, in its older format":    {Network, `{"NeutronError":"Port x could not be found."}`, fault.NotFound},
		"Keystone, for a token":           {Identity, keystone, fault.Auth},
		"Glance, for an image, in HTML":   {Image, glance, fault.NotFound},
		"Glance, for an image, in JSON":   {Image, asJSON, fault.NotFound},
		"Nova, instead of Neutron":        {Network, nova, fault.Transient},
		"Keystone, instead of Nova":       {Compute, keystone, fault.Transient},
		"Nova, for another fault":         {Compute, `{"forbidden":{"code":404,"message":"no"}}`, fault.Transient},
		"the framework, for a path":       {Compute, asJSON, fault.Transient},
		"nginx":                           {Compute, nginx, fault.Transient},
		"nginx, instead of Glance":        {Image, nginx, fault.Transient},
		"Apache, instead of Glance":       {Image, apache, fault.Transient},
		"Go's file server":                {Network, bare, fault.Transient},
		"an ingress":                      {Compute, ingress, fault.Transient},
		"an ingress, instead of Keystone": {Identity, ingress, fault.Transient},
		"a Kubernetes API server":         {Compute, kube, fault.Transient},
		"an unknown sender":               {Volume, "", fault.Transient},
	} {
		t.Run(name+" (F-19)", func(t *testing.T) {
			err := classify(Call{Service: tt.service, Doing: "looking"}, gophercloud.ErrUnexpectedResponseCode{Actual: http.StatusNotFound, Body: []byte(tt.body)}, nil)
			if !fault.Is(err, tt.class) || tt.class == fault.Transient && fault.Of(err).Code != fault.CodeForeignAnswer {
				t.Errorf("got %s %s: %v", fault.Of(err).Class, fault.Of(err).Code, err)
			}
		})
	}
}
