from random import Random

from proxy.mechanisms.lazy_heap import SLACK, LazyHeap


class Item:
    def __init__(self, name):
        self.name = name
        self.entry = None


def test_the_least_rank_is_first_whatever_changed_before():
    heap = LazyHeap()
    a, b = Item("a"), Item("b")
    heap.push(a, (1, 0, a))
    heap.push(b, (2, 1, b))
    heap.push(a, (3, 0, a))
    assert heap.first() is b
    heap.drop(b)
    assert heap.first() is a
    assert len(heap) == 1
    heap.drop(a)
    assert heap.first() is None


def test_what_is_out_of_date_never_outgrows_what_is_not():
    heap = LazyHeap()
    random = Random(1)
    items = [Item(i) for i in range(50)]
    ranks = {}
    for step in range(5_000):
        item = random.choice(items)
        if item.name in ranks and random.random() < 0.4:
            heap.drop(item)
            del ranks[item.name]
        else:
            ranks[item.name] = rank = (random.random(), step)
            heap.push(item, (*rank, item))
        assert len(heap._entries) <= 2 * len(heap) + SLACK
        least = heap.first()
        assert (least.name if least else None) == min(ranks, key=ranks.get, default=None)
