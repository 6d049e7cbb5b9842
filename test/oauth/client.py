"""Lets itself in with the Python SDK of MCP, from the address of MCP alone, and lists the mailboxes twice.

Arguments: the address of MCP, and the port to which the person is led back.
"""

import asyncio
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlparse

import httpx2
from mcp import ClientSession
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

URL, PORT = sys.argv[1], int(sys.argv[2])


class Memory(TokenStorage):
    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


async def opened(url):
    print(url, flush=True)


def wait_for_answer():
    answers = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answers.append(parse_qs(urlparse(self.path).query))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    HTTPServer(("127.0.0.1", PORT), Handler).handle_request()
    answer = {name: values[0] for name, values in answers[0].items()}
    return AuthorizationCodeResult(code=answer["code"], state=answer["state"], iss=answer["iss"])


async def answered():
    return await asyncio.to_thread(wait_for_answer)


async def main():
    auth = OAuthClientProvider(
        server_url=URL,
        client_metadata=OAuthClientMetadata(
            client_name="Python", redirect_uris=[f"http://127.0.0.1:{PORT}/callback"]
        ),
        storage=Memory(),
        redirect_handler=opened,
        callback_handler=answered,
    )
    async with httpx2.AsyncClient(auth=auth, follow_redirects=True) as http:
        async with streamable_http_client(URL, http_client=http) as streams:
            async with ClientSession(streams[0], streams[1]) as session:
                await session.initialize()
                print(await session.call_tool("list_mailboxes", {}), flush=True)
                auth.context.token_expiry_time = 1
                print("renewed", await session.call_tool("list_mailboxes", {}), flush=True)


asyncio.run(main())
