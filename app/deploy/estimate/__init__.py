"""What a deployment would take and give: memory, layout, network and speed."""
