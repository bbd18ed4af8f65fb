"""Plays a whole /investigate session with the official SDK, and prints what was said as JSON.

    investigate.py CONFIG SERVER [RECORDING]

CONFIG is a file as clients have it ({"mcpServers": {SERVER: {"command", "args"}}}), or the URL of a server; then the token is in
INGERO_MCP_TOKEN and the certificate to trust in SSL_CERT_FILE.
"""

import asyncio
import json
import os
import ssl
import sys

from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client


def length(ns):
    """A time with three digits that count, as people write it."""
    if ns == 0:
        return "0"
    for scale, unit in [(1e9, "s"), (1e6, "ms"), (1e3, "us")]:
        if ns >= scale:
            value = ns / scale
            digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
            return f"{value:.{digits}f} {unit}"
    return f"{ns} ns"


def percent(share):
    """As the tools write it: no share is rounded to all or nothing."""
    value = share * 100
    return f"{value:.2f} %" if 0 < value < 1 or 99 < value < 100 else f"{value:.0f} %"


class Investigation:
    def __init__(self, session, recording):
        self.session = session
        self.named = {"recording": recording} if recording else {}
        self.answers = []

    async def ask(self, tool, **arguments):
        # The SDK itself holds the structured content against the tool's output schema.
        result = await self.session.call_tool(tool, {**self.named, **arguments})
        text = "\n".join(block.text for block in result.content)
        assert not result.is_error, f"{tool} {arguments}: {text}"
        self.answers.append({"tool": tool, "arguments": arguments, "text": text, "structured": result.structured_content})
        return result.structured_content

    async def run(self):
        """From health to verdict, in the order of the prompt; the claims carry numbers of the answers alone."""
        claims = []
        health = (await self.ask("get_capture_health"))["health"]
        trace = health["trace"]
        claims.append(f"The recording is {length(trace['duration_ns'])} long and lost {trace['lost_events']} events.")

        stats = await self.ask("get_trace_stats", limit=10)
        # Of a sample the gaps are not known: the longest phase.
        phase = max(stats["phases"], key=lambda p: p["gaps"]["sum_ns"] or p["end_ns"] - p["start_ns"])
        gaps = phase["gaps"]
        if gaps["sum_ns"] is None:
            claims += [f"{phase['process']}: {sentence}." for sentence in phase["sample"]["summary"]]
        else:
            claims.append(
                f"{phase['process']} submitted {phase['submissions']} times; "
                f"{gaps['count']} gaps between them last {length(gaps['sum_ns'])} in all."
            )
        if gaps["blocked_ns"] is not None:
            claims.append(f"In them it ran {length(gaps['running_ns'])} and was blocked {length(gaps['blocked_ns'])}.")

        chains = (await self.ask("get_causal_chains", pid=phase["pid"]))["chains"]
        worst = chains[0] if chains else {"evidence": [], "recommendations": []}
        if chains:
            share = f"{percent(worst['share'])} of phase {worst['phase']}"
            claims.append(f"{worst['severity']}: {length(worst['lost_ns'])} were lost, {share}.")
        for evidence in worst["evidence"][:2]:
            span = {"from": f"{evidence['start_ns']}ns", "to": f"{evidence['end_ns']}ns"}
            seen = await self.ask("get_timeline", tid=evidence["tid"], **span, limit=20)
            if seen["spent"]:
                ran, blocked = (length(seen["spent"][state]) for state in ("running_ns", "blocked_ns"))
                claims.append(f"Thread {evidence['tid']} ran {ran} of it and was blocked {blocked}.")
            wakers = [row["woken_by"] for row in seen["rows"] if "woken_by" in row]
            if wakers:
                theirs = await self.ask("get_timeline", tid=wakers[0]["tid"], **span, only=["states"])
                ran = length(theirs["spent"]["running_ns"])
                claims.append(f"Thread {wakers[0]['tid']}, which woke it, ran {ran} meanwhile.")
        if not chains:
            seen = await self.ask("get_timeline", pid=phase["pid"], limit=5)
            claims.append(f"No rule found a cause; {seen['left_out']['total_rows']:,} stretches of process {phase['pid']} are known.")

        for process in (await self.ask("get_per_process_breakdown", limit=5))["processes"]:
            pid, off_cpu = process["pid"], process["off_cpu"]
            if process["on_cpu_ns"] is not None:
                claims.append(f"{pid} was on a CPU for {length(process['on_cpu_ns'])}.")
            if off_cpu["count"] is not None:
                claims.append(f"{pid} was off the CPU {off_cpu['count']:,} times, {length(off_cpu['max_ns'])} at the longest.")
            if process["page_allocs"]["count"] is not None:
                claims.append(f"{pid} had pages allocated {process['page_allocs']['count']:,} times.")
        await self.ask("get_stacks")
        rows = (await self.ask("run_sql", sql="SELECT function, count(*) AS n FROM calls GROUP BY 1 ORDER BY n DESC, 1 LIMIT 3"))["rows"]
        claims += [f"{function} was called {count} times." for function, count in rows]
        return {"claims": claims, "advice": worst["recommendations"]}


async def play(session, recording):
    hello = await session.initialize()
    tools = (await session.list_tools()).tools
    prompts = (await session.list_prompts()).prompts
    arguments = {"recording": recording} if recording else {}
    prompt = await session.get_prompt("investigate", arguments)
    investigation = Investigation(session, recording)
    verdict = await investigation.run()
    return {
        "server": hello.server_info.name,
        "tools": [{"name": t.name, "description": t.description, "output": bool(t.output_schema)} for t in tools],
        "prompts": [p.name for p in prompts],
        "prompt": prompt.messages[0].content.text,
        "answers": investigation.answers,
        **verdict,
    }


async def main(config, server, recording=None):
    if config.startswith("http"):
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        token = os.environ.get("INGERO_MCP_TOKEN")
        trust = os.environ.get("SSL_CERT_FILE")
        client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {token}"} if token else {},
            verify=ssl.create_default_context(cafile=trust) if trust else True,
            timeout=120,
        )
        streams = streamable_http_client(config, http_client=client)
    else:
        with open(config, encoding="utf-8") as file:
            entry = json.load(file)["mcpServers"][server]
        streams = stdio_client(StdioServerParameters(command=entry["command"], args=entry["args"]))
    async with streams as (read, write, *_), ClientSession(read, write) as session:
        print(json.dumps(await play(session, recording), indent=1))


asyncio.run(main(*sys.argv[1:]))
