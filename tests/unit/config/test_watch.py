from proxy.config.watch import FileWatch


def test_a_file_that_nobody_touches_has_not_changed(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("a")
    watch = FileWatch(path)
    assert not watch.has_changed()
    assert not watch.has_changed()


def test_a_file_that_was_written_has_changed_once(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("a")
    watch = FileWatch(path)
    path.write_text("ab")
    assert watch.has_changed()
    assert not watch.has_changed()


def test_a_symbolic_link_swapped_as_kubernetes_does_is_a_change(tmp_path):
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "config.yaml").write_text("same")
    (tmp_path / "data").symlink_to("1")
    (tmp_path / "config.yaml").symlink_to("data/config.yaml")
    watch = FileWatch(tmp_path / "config.yaml")
    assert not watch.has_changed()
    (tmp_path / "new").symlink_to("2")
    (tmp_path / "new").replace(tmp_path / "data")
    assert watch.has_changed()


def test_a_file_that_is_gone_for_a_moment_is_no_change(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("a")
    watch = FileWatch(path)
    path.unlink()
    assert not watch.has_changed()
    path.write_text("b")
    assert watch.has_changed()
