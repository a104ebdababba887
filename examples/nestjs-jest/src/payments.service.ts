import { Injectable } from "@nestjs/common";
import { idempotent } from "nevertwice";
import { guard } from "./guard";

export interface Order {
  readonly id: string;
  readonly amount: number;
}

@Injectable()
export class PaymentsService {
  /** What the provider was asked for. */
  readonly charged: Order[] = [];

  /** Runs once for each order, if a controller, a consumer or a job calls it. */
  @idempotent(guard, { operation: "charge", keyFrom: ["0.id"], fingerprint: (order: Order) => order })
  async charge(order: Order): Promise<string> {
    this.charged.push(order);
    return `receipt-${this.charged.length}`;
  }
}
