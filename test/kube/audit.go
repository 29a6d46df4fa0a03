package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Request is one request that the API server has answered, from its audit log. The server logs a watch when the watch
// ends.
type Request struct {
	// User is the user who made the request. UserAgent is the user agent that the client sent.
	User, UserAgent string
	// Verb is get, list, watch, create, update, patch, delete or deletecollection.
	Verb string
	// Group, Resource and Subresource are the kind of the object. All are empty for a path that is not an object, such
	// as /readyz.
	Group, Resource, Subresource string
	Namespace, Name              string
	// URI is the path with the query, which shows dryRun and fieldManager.
	URI  string
	Code int
	// At is the time at which the request arrived.
	At time.Time
}

// Wrote reports whether a request changed something, or was at least allowed to: a mutating verb that was answered with
// success.
func (r Request) Wrote() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return r.Code >= 200 && r.Code < 300
	default:
		return false
	}
}

// Requests returns the requests that the API server has answered so far, in the order of its log. The server logs a request just
// after it has answered it, so a caller that counts the last request must poll.
func (c *Cluster) Requests() ([]Request, error) { return ReadAudit(c.AuditLog) }

// ReadAudit reads an audit log up to its last complete line.
func ReadAudit(path string) ([]Request, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1] // the API server may still be writing the last line
	var requests []Request
	for line := range bytes.Lines(whole) {
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading line %d of the audit log %s: %w", len(requests)+1, path, err)
		}
		requests = append(requests, e.request())
	}
	return requests, nil
}

// auditEvent holds the fields of an Event of audit.k8s.io/v1 that this package uses.
type auditEvent struct {
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	UserAgent string `json:"userAgent"`
	ObjectRef struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestReceivedTimestamp time.Time `json:"requestReceivedTimestamp"`
}

func (e auditEvent) request() Request {
	return Request{
		User: e.User.Username, UserAgent: e.UserAgent, Verb: e.Verb,
		Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
		URI: e.RequestURI, Code: e.ResponseStatus.Code, At: e.RequestReceivedTimestamp,
	}
}
