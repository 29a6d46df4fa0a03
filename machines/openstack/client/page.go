package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/drover-project/drover/machines/fault"
)

// mostRow is the maximum size of a row of a list in bytes, and of any other value of a page. Nova's largest row has 128 metadata items
// of 510 characters, about 64 KiB, and up to six times as much if each character is escaped.
const mostRow = 1 << 20

// page reads the page of a list that l describes, and calls add with each of its rows. It returns the headers of the response, and the
// query for the next page, which is nil when there is none. It reads one row after the other, so that a page needs the memory of its largest
// row and of what add keeps. It fails when add fails.
func page[T any](ctx context.Context, api *gophercloud.ServiceClient, l Listing, add func(T) error) (http.Header, url.Values, error) {
	address := api.ServiceURL(l.Path)
	if len(l.Query) > 0 {
		address += "?" + l.Query.Encode()
	}
	resp, err := api.Get(ctx, address, nil, &gophercloud.RequestOpts{KeepResponseBody: true})
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	next, err := readPage(newRows(resp.Body, mostRow), l.Field, add)
	return resp.Header, next, err
}

// readPage decodes a page: an object with the rows in one field, and perhaps a link to the next page in another.
func readPage[T any](in *rows, field string, add func(T) error) (url.Values, error) {
	var to links
	err := in.each('{', func() error {
		name, err := in.Token()
		if err != nil {
			return err
		}
		in.left = in.most
		switch name {
		case field:
			return in.each('[', func() error {
				var row T
				if err := in.Decode(&row); err != nil {
					return err
				}
				return add(row)
			})
		case field + "_links":
			return in.Decode(&to)
		case "next":
			to = links{{Rel: "next"}}
			return in.Decode(&to[0].Href)
		}
		var ignored json.RawMessage
		return in.Decode(&ignored)
	})
	if err != nil {
		return nil, err
	}
	return to.next()
}

// rows decodes the values of a page. It fails at a value of more than most bytes.
type rows struct {
	*json.Decoder
	body io.Reader
	// left is how many bytes may be read before the end of the present value.
	most, left int
}

func newRows(body io.Reader, most int) *rows {
	r := &rows{body: body, most: most, left: most}
	r.Decoder = json.NewDecoder(r)
	return r
}

// each calls read at each value of an array, or each name of an object, that begins with this character. An array may also be
// null, which has no values.
func (r *rows) each(begin json.Delim, read func() error) error {
	r.left = r.most
	switch got, err := r.Token(); {
	case err != nil || got == nil && begin == '[':
		return err
	case got != begin:
		return foreign("the response is not one of an OpenStack service")
	}
	for r.left = r.most; r.More(); r.left = r.most {
		if err := read(); err != nil {
			return err
		}
	}
	r.left = r.most
	_, err := r.Token()
	return err
}

// Read reads the body for the decoder.
func (r *rows) Read(into []byte) (int, error) {
	if r.left == 0 {
		return 0, foreign("one row of the list has more than %d KiB, which is more than drover reads", r.most>>10)
	}
	n, err := r.body.Read(into[:min(len(into), r.left)])
	r.left -= n
	return n, err
}

// links are the links to other pages of a list, in the format of Nova and Neutron. Glance has a field next instead.
type links []struct {
	Href string `json:"href"`
	Rel  string `json:"rel"`
}

// next returns the query for the next page; nil when there is none. It uses only the query of the link, because the cloud's own
// host name in the link may differ from the one that drover reaches.
func (l links) next() (url.Values, error) {
	for _, k := range l {
		if k.Rel != "next" || k.Href == "" {
			continue
		}
		u, err := url.Parse(k.Href)
		if err != nil {
			return nil, fault.New(fault.Unknown, fault.CodeUnknown, "the link to the next page is not a URL")
		}
		return u.Query(), nil
	}
	return nil, nil
}
