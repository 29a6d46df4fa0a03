package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/drover-project/drover/machines/fault"
)

// Listing is one list of an API.
type Listing struct {
	Call
	// Path below the service's URL, and the Field of the answer that holds the items.
	Path, Field string
	Query       url.Values
}

// Links point to other pages of a list, as Nova and Neutron write them. Glance has a field next instead.
type Links []struct {
	Href string `json:"href"`
	Rel  string `json:"rel"`
}

// Next returns the query that asks for the next page; nil when there is none. Only the query of the link is used: the cloud
// may call itself by another name than the one it is reached by.
func (l Links) Next() (url.Values, error) {
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

// MaxPages ends a list whose links to a next page never end.
const MaxPages = 10000

// List reads all pages of a list. A page that fails fails the list, and so does a list that is too long.
func List[T any](ctx context.Context, s *Session, l Listing) ([]T, error) {
	var all []T
	l.Pages, ctx = true, ForList(ctx)
	err := s.Do(ctx, l.Call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		query := l.Query
		for range MaxPages {
			items, next, err := page[T](ctx, api, l, query)
			if err != nil {
				return err
			}
			all = append(all, items...)
			if err := TooLong(len(all)); err != nil {
				return err
			}
			if next == nil || len(items) == 0 {
				return nil
			}
			query = next
		}
		return fmt.Errorf("the list has no end")
	})
	return all, err
}

func page[T any](ctx context.Context, api *gophercloud.ServiceClient, l Listing, query url.Values) ([]T, url.Values, error) {
	address := api.ServiceURL(l.Path)
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	var body map[string]json.RawMessage
	if _, err := api.Get(ctx, address, &body, nil); err != nil {
		return nil, nil, err
	}
	var items []T
	if err := decode(body[l.Field], &items); err != nil {
		return nil, nil, err
	}
	var links Links
	if err := decode(body[l.Field+"_links"], &links); err != nil {
		return nil, nil, err
	}
	if len(links) == 0 {
		var next string
		if err := decode(body["next"], &next); err != nil {
			return nil, nil, err
		}
		links = Links{{Href: next, Rel: "next"}}
	}
	query, err := links.Next()
	return items, query, err
}

// decode reads a part of an answer, if it is there.
func decode(part json.RawMessage, into any) error {
	if len(part) == 0 {
		return nil
	}
	return json.Unmarshal(part, into)
}
