package client

import (
	"context"
	"fmt"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"
)

// Listing describes one list of an API.
type Listing struct {
	Call
	// Path is relative to the service's URL. Field is the field of the response that holds the items.
	Path, Field string
	Query       url.Values
}

// MaxPages is the maximum number of pages of a list, in case the links to a next page never end.
const MaxPages = 10000

// List returns the rows of all pages of a list. It fails if one page fails or if the list is too long.
func List[T any](ctx context.Context, s *Session, l Listing) ([]T, error) {
	var all []T
	ctx = ForList(ctx)
	err := s.Do(ctx, l.Call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		for range MaxPages {
			before := len(all)
			_, next, err := Page(ctx, api, l, func(row T) error {
				all = append(all, row)
				return TooLong(len(all))
			})
			if err != nil || next == nil || len(all) == before {
				return err
			}
			l.Query = next
		}
		return fmt.Errorf("the list has too many pages")
	})
	return all, err
}
