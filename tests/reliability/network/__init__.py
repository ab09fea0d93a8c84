"""Rows N01 to N15: the broker and the NameServer as processes, attacked over their sockets."""
