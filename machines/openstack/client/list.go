package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/drover-project/drover/machines/fault"
)

// Listing describes one list of an API.
type Listing struct {
	Call
	// Path is relative to the service's URL. Field is the field of the response that holds the items.
	Path, Field string
	Query       url.Values
}

// Links are the links to other pages of a list, in the format of Nova and Neutron. Glance has a field next instead.
type Links []struct {
	Href string `json:"href"`
	Rel  string `json:"rel"`
}

// Next returns the query for the next page; nil when there is none. It uses only the query of the link, because the cloud's own
// host name in the link may differ from the one that drover reaches.
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

// MaxPages is the maximum number of pages of a list, in case the links to a next page never end.
const MaxPages = 10000

// List returns the rows of all pages of a list. It fails if one page fails or if the list is too long.
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
		return fmt.Errorf("the list has too many pages")
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

// decode parses a part of a response, if it is present.
func decode(part json.RawMessage, into any) error {
	if len(part) == 0 {
		return nil
	}
	return json.Unmarshal(part, into)
}
