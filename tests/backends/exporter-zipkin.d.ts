// No checkout installs it: tests/backends/package.json has it for `npm run test:backends`.

declare module '@opentelemetry/exporter-zipkin' {
  type SpanExporter = import('@opentelemetry/sdk-trace-node').SpanExporter;

  export const ZipkinExporter: new (options: { url: string; serviceName: string }) => SpanExporter;
}
