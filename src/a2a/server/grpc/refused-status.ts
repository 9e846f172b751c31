import type { Metadata, StatusObject } from '@grpc/grpc-js';
import { errorDomain, errorInfoType, type Refusal } from '../http/refusal.ts';

/** What is used of packages that are loaded once gRPC is offered. */
export interface StatusPackages {
  readonly grpc: { readonly Metadata: new () => Metadata };
  readonly BinaryWriter: typeof import('@bufbuild/protobuf/wire').BinaryWriter;
}

const codes: Readonly<Record<string, number>> = {
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
};

/** The response to a refused call: the status, with its details as `google.rpc.Status`, and when to retry, in seconds. */
export function statusOf(refusal: Refusal, { grpc, BinaryWriter }: StatusPackages): StatusObject {
  const { statusName, message, reason, headers, metadata: figures = {} } = refusal;
  const code = codes[statusName] ?? 2;
  const info = new BinaryWriter().uint32(10).string(reason).uint32(18).string(errorDomain);
  for (const [name, value] of Object.entries(figures))
    info.uint32(26).fork().uint32(10).string(name).uint32(18).string(value).join();
  const details = new BinaryWriter().uint32(10).string(errorInfoType).uint32(18).bytes(info.finish());
  const status = new BinaryWriter().uint32(8).int32(code).uint32(18).string(message).uint32(26).bytes(details.finish());
  const metadata = new grpc.Metadata();
  metadata.set('grpc-status-details-bin', Buffer.from(status.finish()));
  const seconds = headers?.['Retry-After'];
  if (seconds !== undefined) metadata.set('retry-after', seconds);
  return { code, details: message, metadata };
}
