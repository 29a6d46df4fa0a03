package spec

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
)

// readSpec reads the fields other than credentials. It does not check what only the cloud can answer. reserved are keys that tags
// may not set.
func readSpec(ctx context.Context, ls layers, reserved []string) (*Spec, error) {
	ls.origin = newProvenance()
	s := &Spec{source: ls.list[0].source, origin: ls.origin}
	for _, f := range []struct {
		into  *string
		names []string
	}{
		{&s.Flavor, []string{"flavor"}}, {&s.Image, []string{"image"}}, {&s.AvailabilityZone, []string{"availabilityZone"}},
		{&s.Subnet, []string{"subnet"}}, {&s.FloatingIPPool, []string{"floatingIpPool"}},
		{&s.RootDiskVolumeType, []string{"rootDiskVolumeType"}},
		{&s.KeyName, []string{"keyName"}}, {&s.ComputeAPIVersion, []string{"computeAPIVersion"}},
	} {
		got, err := ls.text(ctx, f.names...)
		if err != nil {
			return nil, err
		}
		*f.into = got.text
	}
	group, err := ls.text(ctx, "serverGroupID", "serverGroup")
	if err != nil {
		return nil, err
	}
	s.ServerGroup, s.ServerGroupField = group.text, group.field
	for _, read := range []func(context.Context, layers) error{s.readLists, s.readFlags, s.readDisk} {
		if err := read(ctx, ls); err != nil {
			return nil, err
		}
	}
	if err := s.readTags(ctx, ls, reserved); err != nil {
		return nil, err
	}
	return s, s.check()
}

func (s *Spec) readLists(ctx context.Context, ls layers) (err error) {
	if s.SecurityGroups, _, err = ls.texts(ctx, "securityGroups"); err != nil {
		return err
	}
	first, err := ls.text(ctx, "network")
	if err != nil {
		return err
	}
	more, from, err := ls.texts(ctx, "networks")
	if err != nil {
		return err
	}
	// network and networks are one field: both are read from the highest layer that has either.
	if first.given() && (from < 0 || first.from <= from) {
		s.Networks = append(s.Networks, first.text)
	}
	if from >= 0 && (!first.given() || from <= first.from) {
		s.Networks = append(s.Networks, more...)
	}
	s.Networks = unique(s.Networks)
	return nil
}

func (s *Spec) readFlags(ctx context.Context, ls layers) (err error) {
	if s.ConfigDrive, err = ls.flag(ctx, "configDrive"); err != nil {
		return err
	}
	s.DisablePortSecurity, err = ls.flag(ctx, "disablePortSecurity")
	return err
}

func (s *Spec) readDisk(ctx context.Context, ls layers) error {
	size, err := ls.text(ctx, "rootDiskSizeGB")
	if err != nil || !size.given() {
		return err
	}
	s.RootDiskSizeGB, err = strconv.Atoi(size.text)
	if err != nil || s.RootDiskSizeGB < 0 {
		return ls.list[size.from].invalid("rootDiskSizeGB", "%s is not a size; use a whole number of GiB", size.shown())
	}
	return nil
}

// readTags reads a map (server metadata) or a list. In a list, an item k=v is metadata, and any other item is a Nova tag. It
// returns an error for a reserved key.
func (s *Spec) readTags(ctx context.Context, ls layers, reserved []string) error {
	for i, l := range ls.list {
		raw := l.fields["tags"]
		if len(raw) == 0 {
			continue
		}
		if raw[0] == '[' {
			list, err := ls.textsIn(ctx, i, "tags")
			if err != nil {
				return l.wrong("tags", err)
			}
			s.splitTags(list)
		} else if err := json.Unmarshal(raw, &s.Metadata); err != nil {
			return l.invalid("tags", "is neither a map of strings nor a list of strings; use one of them")
		}
		for _, key := range reserved {
			if _, taken := s.Metadata[key]; taken {
				return l.invalid("tags", "the key %s is reserved for drover; remove it", key)
			}
		}
		if len(s.Metadata)+len(s.Tags) > 0 {
			return nil
		}
	}
	return nil
}

func (s *Spec) splitTags(list []string) {
	for _, tag := range list {
		key, val, pair := strings.Cut(tag, "=")
		if !pair {
			s.Tags = append(s.Tags, tag)
			continue
		}
		if s.Metadata == nil {
			s.Metadata = map[string]string{}
		}
		s.Metadata[key] = val
	}
}
