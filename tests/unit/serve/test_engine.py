"""Sessions of pages and turns of runs, without a network."""

import asyncio

from anytimebp.serve.engine import Engine
from anytimebp.serve.limits import Limits
from anytimebp.serve.served_model import ServedModel
from anytimebp.serve.streams import Outbox, Question, answer
from served import long_run


def test_a_query_that_is_stopped_twice_leaves_its_session_to_the_next():
    async def stop_twice():
        engine = Engine(ServedModel(long_run(4, 60), "long"), Limits(runs=2, max_memory=2**28), "dynamic")
        engine.start()
        client, outboxes = engine.client("d"), []
        for seconds in (60.0, 0.01):
            outboxes.append(Outbox())
            client.task = engine.begin(answer(engine, client, Question({}, [], seconds, 0), outboxes[-1]))
            if seconds > 1.0:
                await anext(aiter(outboxes[-1]))
                for _ in range(3):  # a newer query, and a client that leaves
                    client.stop()
                    await asyncio.sleep(0)
        ends = [[event async for event in outbox][-1] for outbox in outboxes]
        await engine.close()
        return [end.split(b"\n")[0] for end in ends]

    assert asyncio.run(stop_twice()) == [b"event: stopped", b"event: result"]
