import { defineConfig, type ProxyOptions } from 'vite';

const { MILLRACE_URL: target = 'http://127.0.0.1:4100', MILLRACE_KEY: key } = process.env;

/** The page and the server have one origin: requests go through here, and the key, if there is one, never reaches the browser. */
const proxied: ProxyOptions = {
  target,
  changeOrigin: true,
  ...(key && { headers: { authorization: `Bearer ${key}` } }),
  configure(proxy) {
    // A stream whose server is gone breaks for the page, too, instead of staying open for ever.
    proxy.on('proxyRes', (answer, _request, response) => {
      answer.on('close', () => answer.complete || response.destroy());
    });
  },
};

const proxy = { '/a2a': proxied, '/.well-known': proxied };

export default defineConfig({
  root: import.meta.dirname,
  server: { proxy },
  preview: { proxy },
  build: { target: 'es2022' },
});
