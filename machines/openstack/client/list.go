package client

import (
	"context"
	"net/http"
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

const (
	// maxPages is the maximum number of pages of a list, in case the links to a next page never end.
	maxPages = 10000
	// maxRows is the maximum number of rows of a list.
	maxRows = 50_000
)

// List returns the rows of all pages of a list. It fails if one page fails or if the list is too long.
func List[T any](ctx context.Context, s *Session, l Listing) ([]T, error) {
	all, _, err := Pages[T](ctx, s, l)
	return all, err
}

// Pages returns the rows of all pages of a list, each of which is a call, and the header of the first page. When a page fails, it returns
// the error and the rows of the pages before that page.
func Pages[T any](ctx context.Context, s *Session, l Listing) (all []T, first http.Header, err error) {
	left := &rest{bytes: mostList, values: mostValues}
	for range maxPages {
		before := len(all)
		var next url.Values
		err := s.Do(ctx, l.Call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
			header, to, err := page(withRest(ctx, left), api, l, func(row T) error {
				all = append(all, row)
				if len(all) > maxRows {
					return foreign("the list has more than %d rows, which is more than drover reads", maxRows)
				}
				return nil
			})
			if first == nil {
				first = header
			}
			next = to
			return err
		})
		if err != nil {
			return all[:before], first, err
		}
		if next == nil || len(all) == before {
			return all, first, nil
		}
		l.Query = next
	}
	return all, first, fault.New(fault.Unknown, fault.CodeUnknown, "%s: the list has too many pages", l.Doing)
}
