"""Words: reproducible when seeded, never shared between processes when not."""

from __future__ import annotations

import os

import numpy as np

from node.noise import SeededSource, SystemSource, discrete_gaussian


def test_a_seed_always_gives_the_same_words() -> None:
    # Pinned: a change of the stream would silently change the meaning of every --insecure-seed.
    assert [hex(w) for w in SeededSource(b"seed").words(2)] == ["0xaa39bbae02d9f5e9", "0xbf95b9ac3b23fc57"]
    np.testing.assert_array_equal(SeededSource(b"a").words(1000), SeededSource(b"a").words(1000))


def test_a_seeded_stream_does_not_depend_on_how_it_is_cut() -> None:
    whole, parts = SeededSource(b"a"), SeededSource(b"a")
    np.testing.assert_array_equal(whole.words(100), np.concatenate([parts.words(n) for n in (1, 0, 37, 62)]))


def test_different_seeds_give_different_words() -> None:
    assert not np.intersect1d(SeededSource(b"a").words(10_000), SeededSource(b"b").words(10_000)).size


def test_only_the_system_source_calls_itself_secure() -> None:
    assert SystemSource().secure
    assert not SeededSource(b"").secure


def test_words_are_writable_and_of_full_width() -> None:
    for source in (SystemSource(), SeededSource(b"w")):
        words = source.words(1000)
        words[0] = 0
        assert words.dtype == np.uint64
        assert int(np.bitwise_or.reduce(words)) == 2**64 - 1


def test_a_forked_child_never_repeats_its_parents_words() -> None:
    source = SystemSource()
    discrete_gaussian(1e6, 10, source)  # anything that a buffer could have been filled by
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write_fd, source.words(1000).tobytes())
        os._exit(0)
    parent = source.words(1000)
    child = np.frombuffer(os.read(read_fd, 8000), dtype=np.uint64)
    os.waitpid(pid, 0)
    os.close(read_fd)
    os.close(write_fd)
    assert child.size == 1000
    assert not np.intersect1d(parent, child).size
