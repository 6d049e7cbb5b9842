/** A caller of the REST API over a real socket. */
export interface Answer<T> {
  status: number;
  headers: Headers;
  body: T;
}

export interface Client {
  get<T = Record<string, unknown>>(path: string): Promise<Answer<T>>;
  patch<T = Record<string, unknown>>(path: string, body: unknown): Promise<Answer<T>>;
  put<T = Record<string, unknown>>(path: string, body: unknown): Promise<Answer<T>>;
  post<T = Record<string, unknown>>(path: string, body: unknown, headers?: Record<string, string>): Promise<Answer<T>>;
  delete<T = Record<string, unknown>>(path: string): Promise<Answer<T>>;
  bytes(path: string): Promise<Answer<Uint8Array>>;
}

/** `origin`: `http://host:port`. Paths are below /api/v1 unless they begin with /api. */
export function apiClient(origin: string, key?: string): Client {
  const ask = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(origin + (path.startsWith("/api") ? path : `/api/v1${path}`), {
      ...init,
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(init.headers as Record<string, string>),
      },
    });
  const json = async <T>(response: Response): Promise<Answer<T>> => ({
    status: response.status,
    headers: response.headers,
    body: (await response.json()) as T,
  });
  const withBody = (method: string, body: unknown, headers: Record<string, string> = {}): RequestInit => ({
    method,
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  return {
    get: async (path) => json(await ask(path)),
    patch: async (path, body) => json(await ask(path, withBody("PATCH", body))),
    put: async (path, body) => json(await ask(path, withBody("PUT", body))),
    post: async (path, body, headers) => json(await ask(path, withBody("POST", body, headers))),
    delete: async (path) => json(await ask(path, { method: "DELETE" })),
    async bytes(path) {
      const response = await ask(path);
      return { status: response.status, headers: response.headers, body: new Uint8Array(await response.arrayBuffer()) };
    },
  };
}
