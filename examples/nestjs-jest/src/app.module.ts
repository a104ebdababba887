import { Module } from "@nestjs/common";
import { idempotency } from "nevertwice/http/nest";
import { guard } from "./guard";
import { PaymentsController } from "./payments.controller";
import { PaymentsService } from "./payments.service";

const CUSTOMERS = new Map([["Bearer alice-secret", "alice"]]);

/** Every POST needs an Idempotency-Key, and its response is kept for retries. */
@Module({
  imports: [
    idempotency<{ readonly headers: { readonly authorization?: string } }>(guard, {
      scope: ({ headers }) => CUSTOMERS.get(headers.authorization ?? ""),
      required: true,
      onPending: "wait",
    }),
  ],
  controllers: [PaymentsController],
  providers: [PaymentsService],
})
export class AppModule {}
