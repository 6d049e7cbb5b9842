/** Starts the app in the page that src/http/pages.ts serves. */
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { lazyPart } from "./lib/lazy-part.tsx";
import { AUTHORIZE_PATH } from "./lib/oauth-queries.ts";
import { queryClient } from "./lib/queries.ts";
import { startServiceWorker } from "./lib/service-worker.ts";
import { Connection } from "./parts/ui/connection-line.tsx";
import { router } from "./router.tsx";
import "./styles.css";

const ConsentPage = lazyPart("the request", async () => (await import("./pages/consent-page.tsx")).ConsentPage);

const root = document.getElementById("root");
if (!root) throw new Error("the page has no #root");
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      {window.location.pathname === AUTHORIZE_PATH ? (
        <ConsentPage />
      ) : (
        <>
          <RouterProvider router={router} />
          {/* Also before the first page is there, which may come from the service worker. */}
          <Connection />
        </>
      )}
    </QueryClientProvider>
  </StrictMode>,
);

addEventListener("load", () => startServiceWorker((href) => void router.navigate({ href })));
