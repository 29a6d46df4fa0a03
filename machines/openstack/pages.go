package openstack

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/drover-project/drover/machines/fault"
)

const (
	// pageSize is Nova's own largest page.
	pageSize = 1000
	// restarts is how often a list is begun again because the server that marked a page has vanished.
	restarts = 3
)

// listServers reads all pages of one list. It gives the rows, and the cloud's time at which the list was begun. A page
// that fails fails the list.
func listServers(ctx context.Context, s *session, since time.Time, full bool) ([]row, time.Time, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if !full {
		query.Set("changes-since", since.Add(-overlap).UTC().Format(time.RFC3339))
	}
	var err error
	for range restarts {
		var rows []row
		var date time.Time
		rows, date, err = serverPages(ctx, s, query)
		if fault.Is(err, fault.Invalid) && len(rows) > 0 {
			continue
		}
		return rows, date, err
	}
	return nil, time.Time{}, err
}

// serverPages reads the pages of one list; with an error, the rows of the pages before it.
func serverPages(ctx context.Context, s *session, query url.Values) (rows []row, date time.Time, err error) {
	for range maxPages {
		var body struct {
			Servers []row  `json:"servers"`
			Links   []link `json:"servers_links"`
		}
		err := s.do(ctx, call{service: computeService, doing: "listing servers", version: versionServers}, func(ctx context.Context, client *gophercloud.ServiceClient) error {
			resp, err := client.Get(ctx, client.ServiceURL("servers", "detail")+"?"+query.Encode(), &body, nil)
			if err == nil && date.IsZero() {
				date = cloudTime(resp.Header, body.Servers)
			}
			return err
		})
		if err != nil {
			return rows, date, err
		}
		rows = append(rows, body.Servers...)
		next := ""
		for _, k := range body.Links {
			if k.Rel == "next" {
				next = k.Href
			}
		}
		if next == "" || len(body.Servers) == 0 {
			return rows, date, nil
		}
		u, err := url.Parse(next)
		if err != nil {
			return rows, date, fault.New(fault.Unknown, fault.CodeUnknown, "listing servers: the link to the next page is %q", next)
		}
		query = u.Query()
	}
	return rows, date, fault.New(fault.Unknown, fault.CodeUnknown, "listing servers: the list has no end")
}

// cloudTime is the answer's Date; without one, the latest stamp in it.
func cloudTime(header http.Header, rows []row) time.Time {
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		return date
	}
	var latest time.Time
	for i := range rows {
		if rows[i].Updated.After(latest) {
			latest = rows[i].Updated
		}
	}
	return latest
}
