import { Body, Controller, Post } from "@nestjs/common";
import { type Order, PaymentsService } from "./payments.service";

@Controller("payments")
export class PaymentsController {
  constructor(private readonly payments: PaymentsService) {}

  @Post()
  async pay(@Body() order: Order): Promise<{ receipt: string }> {
    return { receipt: await this.payments.charge(order) };
  }
}
