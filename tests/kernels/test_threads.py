"""Calls in parallel, by torch's OpenMP threads and by threads of our own."""

import threading
from collections import deque

import pytest
import torch

from elmo_hf.kernels import threads
from elmo_hf.kernels.threads import run_in_parallel, run_torch_in_parallel
from tests.remote import run_python


@pytest.fixture(autouse=True, params=["openmp", "threads"])
def kind(request, monkeypatch):
    """Which threads there are; torch has two."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    if request.param == "threads":
        monkeypatch.setattr(threads, "_load_openmp", lambda: None)
    elif threads._load_openmp() is None:
        pytest.skip("torch is not linked to an OpenMP library with GOMP_parallel")
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("number", [0, 1, 2, 7])
def test_every_call_runs_once(number):
    ran = []
    run_in_parallel([lambda k=k: ran.append(k) for k in range(number)])
    assert sorted(ran) == list(range(number))


def test_two_calls_run_at_the_same_time():
    meeting = threading.Barrier(2, timeout=60)
    run_in_parallel([meeting.wait, meeting.wait])


@pytest.mark.parametrize("number", [0, 1])
def test_an_error_reaches_the_caller_after_all_calls(number):
    ran = []

    def fail():
        raise ValueError("no")

    calls = [lambda: ran.append(1), lambda: ran.append(2)]
    calls.insert(number, fail)
    with pytest.raises(ValueError, match="no"):
        run_in_parallel(calls)
    assert sorted(ran) == [1, 2]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_between_two_calls_reaches_the_caller(monkeypatch):
    class Interrupted(deque):
        def popleft(self):
            if len(self) == 1:
                self.clear()
                raise KeyboardInterrupt
            return super().popleft()

    monkeypatch.setattr(threads, "deque", Interrupted)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1 if threads._load_openmp() is None else 2)
    with pytest.raises(KeyboardInterrupt):
        run_in_parallel([int, int])


def test_calls_within_calls():
    ran = []
    inner = [lambda: ran.append(1)] * 2
    run_in_parallel([lambda: run_in_parallel(inner)] * 2)
    assert len(ran) == 4


def test_operators_of_torch_keep_the_settings_of_this_thread():
    seen, x = [], torch.ones(300, 300)

    def work():
        seen.append((torch.is_grad_enabled(), torch.get_num_threads(), float((x @ x).sum())))

    run_torch_in_parallel([work] * 2)
    run_torch_in_parallel([work] * 2, gradients=True)
    assert seen == [(False, 1, 2.7e7)] * 2 + [(True, 1, 2.7e7)] * 2
    assert torch.get_num_threads() == 2 and torch.is_grad_enabled()


def test_a_forked_process_does_not_wait_for_threads_that_it_lacks(kind):
    code = f"""
import os, sys, torch
from elmo_hf.kernels import threads
torch.set_num_threads(2)
if {kind!r} == "threads":
    threads._load_openmp = lambda: None
ran = []
threads.run_in_parallel([lambda: ran.append(1)] * 2)
child = os.fork()
threads.run_in_parallel([lambda: ran.append(1)] * 2)
if child:
    assert os.waitpid(child, 0)[1] == 0
    print(len(ran))
"""
    if not hasattr(threads.os, "fork"):
        pytest.skip("only where processes can fork")
    assert run_python(code, {}, with_package=None).split() == ["4"]
